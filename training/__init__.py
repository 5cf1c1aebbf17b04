"""Scripts that make the stored models and runs, and measure what lessons say about them."""
