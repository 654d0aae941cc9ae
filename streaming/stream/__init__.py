"""Parts of one graph's stream: absorption in memory, commitment to disk, publication to readers."""
