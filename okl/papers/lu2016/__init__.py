"""Lu, Hoi, Wang, Zhao & Liu, Large Scale Online Kernel Learning, JMLR 17(47), 2016: tables 3, 5, 7, 9, figures 3, 4."""
