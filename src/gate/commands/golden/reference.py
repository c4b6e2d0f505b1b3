"""Greedy answers of a Hugging Face causal LM by transformers: the reference of `gate golden make --model`.

Input:   REQUEST, JSON: model (directory or name), seed, tokens (most of an answer), top_k, prompts (each with an id
         and either text or messages)
Output:  OUT, JSON of the format infergate-goldens/1 (docs/gates.md of infergate)
Command: python reference.py REQUEST OUT

float32, eager attention, on the GPU where PyTorch finds one. Log-probabilities are of the log-softmax (natural
logarithm) of the raw logits, from one forward over prompt and answer. Near-ties are kept: `top` shows them. A token's
text is what it adds to a text, so that a leading space is part of it; an answer's text leaves special tokens out.
Exit code 2: there is no such model, or it cannot be used.
"""

import hashlib
import json
import sys
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

# What the hub says of a name that it does not know, or of a model that needs a login.
UNKNOWN = {"RepositoryNotFoundError", "GatedRepoError", "RevisionNotFoundError", "HFValidationError"}


def refuse(why):
    print(f"error: {why}", file=sys.stderr)
    sys.exit(2)


def load(model):
    """The model and its tokenizer. Never runs code that a model brings along."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
    except Exception as error:
        explain(error, f"the tokenizer of {model}")
    try:
        loaded = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="eager")
    except Exception as error:
        explain(error, f"the model {model}")
    return loaded.eval().to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer


def explain(error, what):
    chain = [error]
    while chain[-1].__cause__ or chain[-1].__context__:
        chain.append(chain[-1].__cause__ or chain[-1].__context__)
    why = f"cannot load {what}: {str(error).strip()}"
    if Path(what.split()[-1]).is_dir() or any(type(cause).__name__ in UNKNOWN for cause in chain):
        refuse(why)
    print(f"error: {why}", file=sys.stderr)
    sys.exit(1)


class Texts:
    """What tokens add to a text, whatever a tokenizer does at a text's begin."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.before = tokenizer("a", add_special_tokens=False)["input_ids"][-1:]

    def of(self, ids, **options):
        def decode(ids):
            return self.tokenizer.decode(ids, clean_up_tokenization_spaces=False, **options)

        return decode(self.before + ids)[len(decode(self.before)) :]


@torch.no_grad()
def answer(model, prompt, most, stop):
    """The greedy tokens, those of `stop` last."""
    ids, past, given = [], None, torch.tensor([prompt], device=model.device)
    while len(ids) < most and not (ids and ids[-1] in stop):
        out = model(given, past_key_values=past, use_cache=True)
        past = out.past_key_values
        ids.append(out.logits[0, -1].argmax().item())
        given = torch.tensor([ids[-1:]], device=model.device)
    return ids


@torch.no_grad()
def score(model, prompt, ids, top_k):
    """Each token's log-probability and the best ones at its place."""
    whole = torch.tensor([prompt + ids], device=model.device)
    logits = model(whole, use_cache=False).logits[0, len(prompt) - 1 : -1]
    logprobs = torch.log_softmax(logits.float(), -1)
    best = logprobs.topk(top_k)
    for place, (token, values, tops) in enumerate(zip(ids, best.values.tolist(), best.indices.tolist(), strict=True)):
        top = [[i, round(value, 6)] for i, value in zip(tops, values, strict=True)]
        yield token, round(logprobs[place, token].item(), 6), top


def golden(model, tokenizer, texts, prompt, request, stop):
    if "messages" in prompt:
        text = tokenizer.apply_chat_template(prompt["messages"], add_generation_prompt=True, tokenize=False)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        asked = {"messages": prompt["messages"]}
    else:
        ids = tokenizer(prompt["text"])["input_ids"]
        asked = {"prompt_text": prompt["text"]}
    said = answer(model, ids, request["tokens"], stop)
    return {
        "id": prompt["id"],
        **asked,
        "prompt_ids": ids,
        "tokens": [
            {"id": token, "text": texts.of([token]), "logprob": logprob, "top": top}
            for token, logprob, top in score(model, ids, said, request["top_k"])
        ],
        "text": texts.of(said, skip_special_tokens=True),
        "finish": "stop" if said[-1] in stop else "length",
    }


def stop_ids(model, tokenizer):
    named = model.generation_config.eos_token_id
    named = tokenizer.eos_token_id if named is None else named
    return {named} if isinstance(named, int) else set(named or ())


def identity(model, loaded):
    """The model's name with the hub's revision, or the digest of a directory's weights."""
    folder = Path(model)
    if not folder.is_dir():
        return {"model": model, "revision": getattr(loaded.config, "_commit_hash", None)}
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.bin")):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return {"model": folder.resolve().name, "weights_sha256": digest.hexdigest()}


def main():
    request = json.loads(Path(sys.argv[1]).read_text())
    torch.manual_seed(request["seed"])
    model, tokenizer = load(request["model"])
    prompts = request["prompts"]
    if not tokenizer.chat_template:
        prompts = [prompt for prompt in prompts if "messages" not in prompt]
    texts, stop = Texts(tokenizer), stop_ids(model, tokenizer)
    cases = [golden(model, tokenizer, texts, prompt, request, stop) for prompt in prompts]
    named = {i for case in cases for token in case["tokens"] for i, _ in token["top"]} | stop
    goldens = {
        "format": "infergate-goldens/1",
        **identity(request["model"], model),
        "made_by": f"transformers {transformers.__version__}, torch {torch.__version__}, float32, {model.device.type}",
        "seed": request["seed"],
        "max_tokens": request["tokens"],
        "top_k": request["top_k"],
        "stop_ids": sorted(stop),
        "texts": {i: texts.of([i]) for i in sorted(named)},
    }
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    head = json.dumps(goldens, ensure_ascii=False)[:-1]
    Path(sys.argv[2]).write_text(f'{head}, "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
