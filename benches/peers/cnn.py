"""The convolutional network of examples/src/cnn.rs in PyTorch, with the same parameter names."""

import torch
import torch.nn.functional as F
from torch import nn


def normalized(images, dtype):
    """uint8 pixels with MNIST's mean and deviation taken out."""
    return (images.to(dtype) * (1 / 255) - 0.1307) / 0.3081


class Cnn(nn.Module):
    def __init__(self, side=28, channels=32, hidden=128, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(1, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, 2 * channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(2 * channels)
        self.fc1 = nn.Linear(2 * channels * (side // 4) ** 2, hidden)
        self.fc2 = nn.Linear(hidden, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))

    def loss(self, images, labels):
        """Mean cross entropy, in nats, of uint8 images [batch, 1, side, side] and their classes."""
        return F.cross_entropy(self(normalized(images, self.fc1.weight.dtype)), labels.long())
