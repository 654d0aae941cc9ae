"""Commands that run and look after this machine."""
