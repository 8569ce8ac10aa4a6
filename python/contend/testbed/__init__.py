"""Real services to try contend on: started, loaded and removed with it."""
