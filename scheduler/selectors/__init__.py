"""Selectors of devices: expressions in CEL that DeviceClasses and ResourceClaims carry.

They are judged as kube-scheduler judges them; `docs/filters.md` has what is different.

lexer, parser, syntax   from text to a tree
evaluation, macros      from the tree to functions that count what they cost
operators, texts, lists, kubernetes_functions   what the functions of the language do
values, quantities, versions                    what they do it with
selectors               compile_selector(text).judge(driver, device); judging each pair once
"""
