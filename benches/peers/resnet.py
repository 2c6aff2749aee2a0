"""The ResNet of examples/src/resnet.rs in PyTorch: ResNet-18 with a first convolution of 3 by 3 and no pooling after it. Names are
torchvision's."""

import torch.nn.functional as F
from torch import nn

import cnn


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, inputs=1, width=64, blocks=2, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        channels = width
        for stage in range(4):
            outputs = width << stage
            layer = []
            for block in range(blocks):
                layer.append(Block(channels, outputs, 2 if stage > 0 and block == 0 else 1))
                channels = outputs
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layer))
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))

    def loss(self, images, labels):
        """Mean cross entropy, in nats, of uint8 images [batch, 1, side, side] and their classes."""
        return F.cross_entropy(self(cnn.normalized(images, self.fc.weight.dtype)), labels.long())
