"""One pass over a kind of entity: its population grown in steps and taken down again, calls timed at every step."""
