"""`peewit` as a fork of a process that has imported it: .1 instead of 1.3 CPU seconds a command.

`server` imports once and forks for each command, `command` hands one over and ends as it does. What
a test kills, interrupts or measures is started for real, and so is all that stays.
"""
