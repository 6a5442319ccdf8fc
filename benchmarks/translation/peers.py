"""nn.Transformer and MarianMTModel, as one would train them for translation.

python benchmarks/translation/peers.py torch DATA OUT --minutes 30 --rate 1e-3
"""

import math
import time

import torch
from common import arguments, keep, read, texts
from torch import nn

from transformer_lib.decoding import beam_search
from transformer_lib.seq2seq import BOS, EOS, PAD
from transformer_lib.tokenization import Tokenizer, make_batch, token_batches

SIZE = {"d": 256, "heads": 4, "layers": 3, "ff": 1024}


class Torch(nn.Module):
    """PyTorch's own stacks between an embedding a side and a linear layer.

    `start` and `step` are what our beam search asks for. It has no cache, so
    each step reads the whole prefix, and the source again.
    """

    def __init__(self, vocab: int, dropout: float):
        super().__init__()
        d = SIZE["d"]
        self.src = self.tgt = nn.Embedding(vocab, d, PAD)
        self.stacks = nn.Transformer(
            d, SIZE["heads"], SIZE["layers"], SIZE["layers"], SIZE["ff"],
            dropout=dropout, batch_first=True,
        )  # fmt: skip
        self.out = nn.Linear(d, vocab)
        self.out.weight = self.src.weight  # one matrix, as the others have
        place = torch.arange(256)[:, None]
        turn = torch.exp(torch.arange(0, d, 2) * (-math.log(1e4) / d))
        code = torch.zeros(256, d)
        code[:, 0::2] = torch.sin(place * turn)
        code[:, 1::2] = torch.cos(place * turn)
        self.register_buffer("code", code)
        self.drop = nn.Dropout(dropout)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def enter(self, table, ids):
        x = table(ids) * math.sqrt(SIZE["d"])
        return self.drop(x + self.code[: ids.size(1)])

    def forward(self, src, tgt_in):
        n = tgt_in.size(1)
        hidden = torch.ones(n, n, dtype=torch.bool).triu(1)
        y = self.stacks(
            self.enter(self.src, src), self.enter(self.tgt, tgt_in),
            tgt_mask=hidden, src_key_padding_mask=src == PAD,
            tgt_key_padding_mask=tgt_in == PAD,
            memory_key_padding_mask=src == PAD,
        )  # fmt: skip
        return self.out(y)

    def start(self, src):
        return Prefixes(src, torch.empty(len(src), 0, dtype=torch.long))

    def step(self, last, state):
        ids = torch.cat([state.ids, last.view(-1, 1)], dim=1)
        return self(state.src, ids)[:, -1], Prefixes(state.src, ids)

    def translate(self, sources: list[list[int]]) -> list[list[int]]:
        found = []
        for ids in sources:
            src = torch.tensor([[*ids, EOS]])
            most = min(len(ids) + 20, 250)
            ((best,),) = beam_search(self, src, max_len=most)
            found.append(best.tokens)
        return found


class Prefixes:
    """What has been written, and of which source."""

    def __init__(self, src, ids):
        self.src, self.ids = src, ids

    def select(self, rows):
        return Prefixes(self.src[rows], self.ids[rows])


class Marian(nn.Module):
    """Hugging Face's model of that name, with first weights."""

    def __init__(self, vocab: int, dropout: float):
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        n, heads, ff = SIZE["layers"], SIZE["heads"], SIZE["ff"]
        config = MarianConfig(
            vocab_size=vocab, d_model=SIZE["d"], encoder_layers=n,
            decoder_layers=n, encoder_attention_heads=heads,
            decoder_attention_heads=heads, encoder_ffn_dim=ff,
            decoder_ffn_dim=ff, dropout=dropout, attention_dropout=0.0,
            activation_dropout=0.0, max_position_embeddings=256,
            pad_token_id=PAD, eos_token_id=EOS, bos_token_id=BOS,
            decoder_start_token_id=BOS, forced_eos_token_id=None,
            scale_embedding=True, activation_function="relu",
        )  # fmt: skip
        self.model = MarianMTModel(config)

    def forward(self, src, tgt_in):
        return self.model(
            input_ids=src, attention_mask=(src != PAD).long(),
            decoder_input_ids=tgt_in,
        ).logits  # fmt: skip

    def translate(self, sources):
        found = []
        for ids in sources:
            src = torch.tensor([[*ids, EOS]])
            out = self.model.generate(
                src, attention_mask=torch.ones_like(src), num_beams=4,
                max_new_tokens=min(len(ids) + 20, 250), do_sample=False,
            )  # fmt: skip
            found.append([i for i in out[0].tolist() if i > EOS])
        return found


RECIPES = {  # model, tokens of a batch, dropout
    "torch": (Torch, 3072, 0.1),
    "marian": (Marian, 3072, 0.1),
    "torch-as-ours": (Torch, 1024, 0.0),
}


def batches(src, tgt, size, epoch):
    lengths = [max(len(a), len(b)) + 1 for a, b in zip(src, tgt, strict=True)]
    for rows in token_batches(lengths, size, epoch):
        yield make_batch([src[i] for i in rows], [tgt[i] for i in rows])


def loss_of(model, src, tgt):
    logits, labels = model(src, tgt[:, :-1]), tgt[:, 1:]
    real = labels != PAD
    total = nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=PAD,
        reduction="sum",
    )  # fmt: skip
    return total, int(real.sum())


@torch.no_grad()
def valid_loss(model, src, tgt):
    model.eval()
    total = count = 0
    for batch in batches(src, tgt, 3072, 0):
        part, n = loss_of(model, *batch)
        total, count = total + part.item(), count + n
    model.train()
    return total / count


def trained(name, data, minutes, rate):
    """The model, and what is to be said of its training."""
    vocab = Tokenizer.load(data / "tokenizer.json").vocab_size
    train = [read(data / f"train.{side}") for side in ("source", "target")]
    torch.manual_seed(0)
    kind, size, dropout = RECIPES[name]
    model = kind(vocab, dropout).train()
    if kind is Torch:
        adam = torch.optim.Adam(
            model.parameters(), lr=rate, betas=(0.9, 0.98), eps=1e-9
        )
    else:
        adam = torch.optim.AdamW(model.parameters(), lr=rate)
    begun, step, tokens, epoch = time.perf_counter(), 0, 0, 0
    end = begun + 60 * minutes
    while time.perf_counter() < end:
        for src, tgt in batches(*train, size, epoch):
            now = time.perf_counter()
            if now >= end:
                break
            if name == "marian":  # the Trainer's linear decay, by the clock
                for group in adam.param_groups:
                    group["lr"] = rate * (end - now) / (end - begun)
            total, count = loss_of(model, src, tgt)
            adam.zero_grad()
            (total / count).backward()
            if name == "marian":
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adam.step()
            step, tokens = step + 1, tokens + count
            if step % 100 == 0:
                pace = tokens / (time.perf_counter() - begun)
                print(f"{step} steps, {total.item() / count:.3f}, "
                      f"{pace:.0f} tokens/s", flush=True)  # fmt: skip
        epoch += 1
    seconds = time.perf_counter() - begun
    valid = [read(data / f"valid.{side}") for side in ("source", "target")]
    return model.eval(), {
        "parameters": sum(p.numel() for p in model.parameters()),
        "rate": rate,
        "minutes": round(seconds / 60, 2),
        "steps": step,
        "tokens a second": round(tokens / seconds),
        "valid": round(valid_loss(model, *valid), 4),
    }


def main() -> None:
    args = arguments(__doc__, "name")
    model, said = trained(args.name, args.data, args.minutes, args.rate)
    lines = None
    if not args.no_test:
        with torch.no_grad():
            found = model.translate(read(args.data / "test.source"))
        lines = texts(args.data, found)
    keep(args.out, said, lines)


if __name__ == "__main__":
    main()
