//! Connect the processes of a directory to the one that serves it, or become the one that serves
