package statemachine

// ScanRecord is the fast half of Decode.
var ScanRecord = scanRecord
