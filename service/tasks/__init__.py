"""What each kind of job may be asked, and how it runs; what worker and child say to each other."""
