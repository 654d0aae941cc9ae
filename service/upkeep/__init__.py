"""Upkeep by operators: backup, restore, doctor."""
