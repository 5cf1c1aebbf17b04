"""Parts that exercises of several lessons share: draws, models, probes, properties."""
