"""What only the machine that the emulator runs on may do: look into the journal, make faults, move the clock."""
