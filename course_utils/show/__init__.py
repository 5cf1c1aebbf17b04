"""What lessons show: figures, drawings, attention maps, the explorer and the start page."""
