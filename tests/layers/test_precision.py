import pytest
import torch

from spacy_attention.layers import precision
from spacy_attention.layers.precision import resolve_precision

CPU = torch.device("cpu")


@pytest.mark.parametrize("native", [False, True])
def test_auto_follows_the_hardware(native, monkeypatch):
    monkeypatch.setattr(precision, "has_native_bfloat16", lambda device: native)
    assert resolve_precision("auto", CPU) == (torch.bfloat16 if native else torch.float32)
    assert resolve_precision("float32", CPU) == torch.float32
    assert resolve_precision("bfloat16", CPU) == torch.bfloat16


@pytest.mark.parametrize(("amx", "avx512"), [(False, False), (True, False), (False, True)])
def test_native_on_cpu(amx, avx512, monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512)
    assert precision.has_native_bfloat16(CPU) is (amx or avx512)
