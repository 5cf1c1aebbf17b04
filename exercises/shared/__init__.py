"""What lessons share: draws, right answers in steps, mistakes written once, evidence."""
