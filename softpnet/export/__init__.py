"""A trained model as one file for elsewhere: network, prototypes, calibration, names and rule."""
