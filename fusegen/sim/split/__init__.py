"""Dividing a mix kernel between AIC and AIVs by its text, as the vendor's compiler does.

kinds     -> what each call does
flow      -> where tile data comes from, and what depends on sub_vec_id()
placement -> which core type runs each tile operation, and where values are handed over
versions  -> the AIC's text and the AIV's; liveness removes what each does not use
"""
