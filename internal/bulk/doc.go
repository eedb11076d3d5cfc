// Package bulk changes many things on purpose: as planned, at a rate, a few
// first, and no further when it goes wrong.
//
// A Job reads what is selected as it comes, has each decided on, and changes
// those that may be. The plan is the same without the change. It holds a batch
// of items, and a bounded number of those whose outcome it looks at.
package bulk
