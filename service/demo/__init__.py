"""`peewit demo`: real digits through the code that serves users."""
