"""What only the papers' tables need: the tables, the benchmarks' files as released, published judges, and the methods
zepo, pairs-beam, gptscore, bartscore, unieval, bertscore and meteor. It uses public names of synthscore only, and is
not installed with it.

    python -m papers list                                         the tables there are
    python -m papers ds1 ds2 --data benchmarks/ --model MODEL     tables, measured beside published figures
    python -m papers curve ROWS --human RATINGS                   agreement by the number of calls
    python -m papers import ROWS --benchmark NAME --data DIR ...  published judges -> a store
    python -m papers scores ROWS PART -o FILE                     published scores -> rows of scores
    python -m papers evaluate --methods bertscore:model=M ...     any verb of synthscore, with these methods and files

Importing it registers its methods and files with synthscore.
"""

from synthscore.evaluation.methods import register
from synthscore.evaluation.ratings import BENCHMARKS

from .benchmarks import BENCHMARKS as RELEASED
from .methods import bertscore, gptscore, meteor, pairs, prompt_scoring, unieval, zepo

register(
    {
        **zepo.KINDS,
        **pairs.KINDS,
        **gptscore.KINDS,
        **unieval.KINDS,
        **bertscore.KINDS,
        **meteor.KINDS,
        **prompt_scoring.KINDS,
    }
)
BENCHMARKS.update(RELEASED)
