"""A zoo of small ordinary programs, made at random, on which `contend whatif` and `contend hunt` are scored.

A program is one to three mechanisms (`zoo.mechanisms`, a file each) put together by `zoo.draws`. It can make each edit for
real, so that the truth of a prediction is measured (`zoo.truth`). `zoo.campaign` traces programs, has contend predict, and
measures; `zoo.scoring` says how often contend was right, wrong and trusted, or refused; `zoo.again` has it predict once
more. Nothing here knows how contend
predicts: it is used by its command line.
"""
