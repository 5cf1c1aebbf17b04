"""The interactive heatmap of attention, and the table that replaces it where no script runs."""

from course_utils.show.attention_map.widget import AttentionMap, attention_map

__all__ = ["AttentionMap", "attention_map"]
