"""Labels that people give: a history of events, and their entry."""
