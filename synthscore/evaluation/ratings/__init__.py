"""What people said of texts: benchmarks, a user's own ratings, and scores joined to either."""

from .benchmarks import BENCHMARKS, Benchmark, load_benchmark
from .join import Joined, join
from .read import read_ratings
from .types import RatedText, Ratings

__all__ = ["BENCHMARKS", "Benchmark", "Joined", "RatedText", "Ratings", "join", "load_benchmark", "read_ratings"]
