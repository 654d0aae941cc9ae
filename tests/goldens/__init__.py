"""What people see at every door, recorded: its difference says what a change changes for them."""
