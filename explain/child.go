package explain

import (
	"fmt"

	"github.com/pawlrun/pawl/statemachine"
)

// child explains that the run waits for another.
func (f *Facts) child(e *Reason, p *statemachine.Pending) {
	e.Code, e.Child, e.Help = AwaitsChild, p.Child.Run, "pawl run explain "+word(p.Child.Run)
	e.Text = fmt.Sprintf("state %s waits for the end of run %q of machine %s", f.Record.To, p.Child.Run, p.Child.Machine)
	c, seen := f.Children[p.ID]
	switch {
	case !seen:
	case c == nil:
		e.Text += ", which has not begun"
		e.Alone = true
	case c.Status.Ended():
		e.Text += fmt.Sprintf(", which has ended (%s): that is on its way here", c.Status)
		e.Alone = true
	default:
		e.Text += fmt.Sprintf(", which is %s in state %s", c.Status, c.To)
		if c.Cause != nil {
			e.Text += ": " + causeText(c.Cause)
		}
	}
}
