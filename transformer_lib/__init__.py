"""The Transformer of 2017, as its chapters derive it.

Each module is exported from the notebook of the same name.
"""

from transformer_lib.attention import (
    AdditiveAttention,
    Attention,
    BilinearAttention,
    ScaledDotProductAttention,
    causal_mask,
    combine_masks,
    masked_softmax,
    padding_mask,
)
from transformer_lib.attention_maps import (
    draw,
    record,
)
from transformer_lib.checkpoints import (
    average,
    load_checkpoint,
    load_model,
    resume,
    save_checkpoint,
)
from transformer_lib.clauses import (
    Phrase,
)
from transformer_lib.corpus import (
    Pair,
    read_pairs,
    split,
)
from transformer_lib.decoder import (
    Cache,
    Decoder,
    DecoderLayer,
    DecoderState,
)
from transformer_lib.decoding import (
    Hypothesis,
    beam_search,
    greedy_search,
    length_penalty,
)
from transformer_lib.distributed import (
    SharedGradient,
    SharedTraining,
)
from transformer_lib.embedding import (
    TokenEmbedding,
)
from transformer_lib.encoder import (
    Encoder,
    EncoderLayer,
    Stack,
    TransformerConfig,
)
from transformer_lib.feed_forward import (
    FeedForward,
)
from transformer_lib.grammar import (
    Sentence,
)
from transformer_lib.lexicon import (
    Adjective,
    Noun,
    Verb,
)
from transformer_lib.loss import (
    cross_entropy,
    evaluate,
    kl_divergence,
    perplexity,
    squared_distance,
)
from transformer_lib.models import (
    TwoWays,
)
from transformer_lib.multi_head_attention import (
    MultiHeadAttention,
    merge_heads,
    split_heads,
)
from transformer_lib.normalization import (
    BatchNorm,
    LayerNorm,
    PostNorm,
    PreNorm,
)
from transformer_lib.plans import (
    Context,
    Plan,
)
from transformer_lib.positional_encoding import (
    LearnedPositionalEncoding,
    NoPosition,
    SinusoidalPositionalEncoding,
    sinusoids,
)
from transformer_lib.real_corpus import (
    Known,
    cut_corpus,
    fetch,
    hold_out,
    read_corpus,
    tidy,
)
from transformer_lib.recipe import (
    Settings,
    training_run,
)
from transformer_lib.residual import (
    Dropout,
    NoResidual,
    Residual,
)
from transformer_lib.rnn import (
    AttentionRNN,
    ContextRNN,
    RNNState,
    SimpleRNN,
)
from transformer_lib.seq2seq import (
    BOS,
    EOS,
    PAD,
    Seq2Seq,
    State,
    log_prob,
    shift,
)
from transformer_lib.tokenization import (
    Tokenizer,
    collate,
    make_batch,
    token_batches,
)
from transformer_lib.training import (
    Training,
    learning_rate,
    linear_rate,
    train,
    train_until,
)
from transformer_lib.transformer import (
    Parts,
    Transformer,
)
from transformer_lib.translator import (
    Translation,
    Translator,
)

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "AdditiveAttention",
    "Adjective",
    "Attention",
    "AttentionRNN",
    "BatchNorm",
    "BilinearAttention",
    "Cache",
    "Context",
    "ContextRNN",
    "Decoder",
    "DecoderLayer",
    "DecoderState",
    "Dropout",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "Hypothesis",
    "Known",
    "LayerNorm",
    "LearnedPositionalEncoding",
    "MultiHeadAttention",
    "NoPosition",
    "NoResidual",
    "Noun",
    "Pair",
    "Parts",
    "Phrase",
    "Plan",
    "PostNorm",
    "PreNorm",
    "RNNState",
    "Residual",
    "ScaledDotProductAttention",
    "Sentence",
    "Seq2Seq",
    "Settings",
    "SharedGradient",
    "SharedTraining",
    "SimpleRNN",
    "SinusoidalPositionalEncoding",
    "Stack",
    "State",
    "TokenEmbedding",
    "Tokenizer",
    "Training",
    "Transformer",
    "TransformerConfig",
    "Translation",
    "Translator",
    "TwoWays",
    "Verb",
    "average",
    "beam_search",
    "causal_mask",
    "collate",
    "combine_masks",
    "cross_entropy",
    "cut_corpus",
    "draw",
    "evaluate",
    "fetch",
    "greedy_search",
    "hold_out",
    "kl_divergence",
    "learning_rate",
    "length_penalty",
    "linear_rate",
    "load_checkpoint",
    "load_model",
    "log_prob",
    "make_batch",
    "masked_softmax",
    "merge_heads",
    "padding_mask",
    "perplexity",
    "read_corpus",
    "read_pairs",
    "record",
    "resume",
    "save_checkpoint",
    "shift",
    "sinusoids",
    "split",
    "split_heads",
    "squared_distance",
    "tidy",
    "token_batches",
    "train",
    "train_until",
    "training_run",
]
