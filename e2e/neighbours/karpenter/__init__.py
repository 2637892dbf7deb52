"""Karpenter, which buys the nodes that gangs lack."""
