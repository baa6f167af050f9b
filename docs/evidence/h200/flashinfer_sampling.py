"""Stand-ins in plain PyTorch for the two of FlashInfer's functions that SGLang's verification of sampled drafts calls."""
import torch

def _no(*a, **k):
    raise RuntimeError("flashinfer stub: use --sampling-backend pytorch")

min_p_sampling_from_probs = top_k_top_p_sampling_from_probs = _no

def _column(value, probs):
    value = value if torch.is_tensor(value) else torch.tensor([value], device=probs.device)
    return value.to(probs.device).reshape(-1, 1).expand(probs.shape[0], 1)

def top_k_renorm_probs(probs, top_k, *a, **k):
    limit = _column(top_k, probs).long().clamp(1, probs.shape[-1])
    ranked = probs.sort(dim=-1, descending=True).values
    kept = torch.where(probs >= ranked.gather(-1, limit - 1), probs, torch.zeros_like(probs))
    return kept / kept.sum(-1, keepdim=True)

def top_p_renorm_probs(probs, top_p, *a, **k):
    limit = _column(top_p, probs).to(probs.dtype)
    ranked, order = probs.sort(dim=-1, descending=True)
    ranked = torch.where(ranked.cumsum(-1) - ranked < limit, ranked, torch.zeros_like(ranked))
    kept = torch.zeros_like(probs).scatter(-1, order, ranked)
    return kept / kept.sum(-1, keepdim=True)

top_k_renorm_prob, top_p_renorm_prob = top_k_renorm_probs, top_p_renorm_probs
