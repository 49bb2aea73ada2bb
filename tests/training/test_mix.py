import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from training.mix import mix


def judge(folder, weight, counts):
    folder.mkdir()
    save_file({"w": torch.full((2,), weight)}, folder / "model.safetensors")
    found = [{"begins": "Fluency", "weights": counts}]
    (folder / "config.json").write_text(json.dumps({"synthscore": {"counts": found}}))
    return folder


@pytest.mark.parametrize(("share", "weight", "counts"), [(0.0, 1.0, [4.0]), (0.25, 2.0, [3.0]), (1.0, 5.0, [0.0])])
def test_a_mix_lies_between_both_judges(tmp_path, share, weight, counts):
    first, second = judge(tmp_path / "a", 1.0, [4.0]), judge(tmp_path / "b", 5.0, [0.0])
    mix(first, second, share, tmp_path / "out")
    assert load_file(tmp_path / "out" / "model.safetensors")["w"].tolist() == [weight] * 2
    assert json.loads((tmp_path / "out" / "config.json").read_text())["synthscore"]["counts"][0]["weights"] == counts
