"""Models that read two texts as isolated segments, such as nano."""
