"""Models that read two texts apart, such as nano."""
