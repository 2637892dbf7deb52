"""Selectors of devices: expressions in CEL that DeviceClasses and ResourceClaims carry.

They are judged as kube-scheduler judges them; `docs/device-selectors.md` has what is different.

lexer, parser, syntax   from text to a tree
evaluation, macros      from the tree to functions that count what they cost
operators, entries, texts, lists, kubernetes_functions   what the language does
values, quantities, versions, patterns   what it does it with
selectors               compile_selector(text).judge(driver, device); judging each pair once
"""
