//! Printing elements the way PyTorch prints them.
