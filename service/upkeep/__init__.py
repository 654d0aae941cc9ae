"""What operators do: backup, restore, doctor."""
