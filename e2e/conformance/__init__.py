"""Does Muster pass the conformance kit (`conformance/`), and what do other schedulers do?"""
