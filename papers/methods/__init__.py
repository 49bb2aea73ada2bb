"""Methods of the papers that nobody would choose over those of synthscore."""
