// A target that shares its precompiled header needs a source of its own.
