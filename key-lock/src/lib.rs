//! Kernel locks on the files of a local directory, one for each key
