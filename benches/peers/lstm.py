"""The byte-level LSTM of examples/src/lstm.rs in PyTorch, with the same parameter names."""

import torch.nn.functional as F
from torch import nn

VOCABULARY = 256


class ByteLstm(nn.Module):
    def __init__(self, layers=1, width=128, hidden=512):
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, width)
        self.lstm = nn.LSTM(width, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, VOCABULARY)

    def forward(self, tokens):
        """Logits [batch, time, 256] of tokens [batch, time]."""
        return self.head(self.lstm(self.wte(tokens))[0])

    def loss(self, tokens):
        """Mean cross entropy, in nats per byte, of tokens [batch, time + 1]."""
        tokens = tokens.long()
        logits = self(tokens[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
