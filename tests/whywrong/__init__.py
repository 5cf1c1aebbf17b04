"""The engine alone, on small exercises of its own: nothing of the course is needed."""
