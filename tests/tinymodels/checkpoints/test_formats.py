"""Every format gives back the same state, and can be changed between launches."""

import pytest

SMALL = ("--samples", 150, "--epochs", 2, "--save-every", 5)  # 20 steps, alone


def weights(out):
    return (out / "model.safetensors").read_bytes()


@pytest.mark.parametrize("flags", [(), ("--model", "mlp", "--amp", "--noise", 0.2)], ids=["gpt", "mlp-amp-noise"])
@pytest.mark.parametrize("form", ["dcp", "pt", "safetensors"])
def test_resumes_exactly(train, tmp_path, capsys, form, flags):
    train(tmp_path / "whole", *SMALL, *flags)
    train(tmp_path / "parts", *SMALL, *flags, "--format", form, "--stop-after", 13)
    capsys.readouterr()
    train(tmp_path / "parts", *SMALL, *flags, "--format", form)
    assert "step-00000010 (" in capsys.readouterr().out
    assert weights(tmp_path / "whole") == weights(tmp_path / "parts")


def test_from_one_to_the_other(train, tmp_path, capsys):
    train(tmp_path / "whole", *SMALL)
    for form, stop in (("pt", 6), ("safetensors", 11), ("dcp", 16), ("pt", 20)):
        train(tmp_path / "parts", *SMALL, "--format", form, "--stop-after", stop)
    said = capsys.readouterr().out
    assert [f"step-{step:08d} (" in said for step in (5, 10, 15)] == [True] * 3
    train(tmp_path / "parts", *SMALL)
    assert weights(tmp_path / "whole") == weights(tmp_path / "parts")


@pytest.mark.parametrize(("form", "file"), [("pt", "sharded.pt"), ("safetensors", "sharded.safetensors")])
def test_damage_is_found_before_it_is_read(train, tmp_path, capsys, form, file):
    train(tmp_path, *SMALL, "--format", form, "--stop-after", 13)
    path = tmp_path / "checkpoints" / "step-00000010" / file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    capsys.readouterr()
    train(tmp_path, *SMALL, "--stop-after", 14)
    said = capsys.readouterr().out
    assert f"refused step-00000010: {file} does not match its checksum" in said and "step-00000005 (" in said


@pytest.mark.slow
@pytest.mark.parametrize("form", ["pt", "safetensors"])
def test_two_ranks(launch, tmp_path, form):
    flags = ("--epochs", 1, "--format", form)
    assert launch(tmp_path / "whole", *flags)[0] == [0, 0]
    assert launch(tmp_path / "parts", *flags, "--stop-after", 14)[0] == [0, 0]
    codes, said = launch(tmp_path / "parts", *flags)
    assert codes == [0, 0] and "step-00000010 (" in said
    assert weights(tmp_path / "whole") == weights(tmp_path / "parts")
