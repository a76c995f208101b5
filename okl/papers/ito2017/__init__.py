"""Ito, Takeda & Toh, A Unified Formulation and Fast APG Method for Classification, JMLR 18(16), 2017: tables 2-11."""
