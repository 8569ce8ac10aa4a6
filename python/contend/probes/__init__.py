"""What is recorded while a trial runs, what it says, and what recording it cost."""
