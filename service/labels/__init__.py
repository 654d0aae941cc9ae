"""What people say of nodes: a history of label events, and the door they come in by."""
