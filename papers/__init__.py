"""What only the papers' tables need: the tables, the benchmarks' files as released, published judges, and the methods
zepo, pairs-beam, gptscore, bartscore, unieval, bertscore, meteor and prompt-scoring. It uses public names of synthscore
only, and is a distribution of its own: `pip install --editable papers` gives every verb of synthscore its methods and
benchmarks, by the entry points in pyproject.toml.

    python -m papers list                                         the tables there are
    python -m papers ds1 ds2 --data benchmarks/ --model MODEL     tables, measured beside published figures
    python -m papers evidence --data benchmarks/ --model MODEL    what ladders are worth, with any judge
    python -m papers linearity --data benchmarks/ --model MODEL   whether a judge's probabilities are linear
    python -m papers import ROWS --benchmark NAME --data DIR ...  published judges -> a store
    python -m papers scores ROWS PART -o FILE                     published scores -> rows of scores
"""
