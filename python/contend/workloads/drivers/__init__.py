"""What loads and measures inside a trial: it knows no test bed, and runs against anybody's."""
