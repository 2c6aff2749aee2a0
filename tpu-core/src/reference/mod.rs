//! A naive interpreter of the whole op set: the oracle that every other backend is tested against.
