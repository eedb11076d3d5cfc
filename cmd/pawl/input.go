package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/queue"
)

// checkRun refuses what is no run id, and what a header would not carry as it
// is.
func checkRun(id string) error {
	if err := queue.CheckRun(id); err != nil {
		return err
	}
	if !queue.FitsHeader(id) {
		return fmt.Errorf("%q has control characters, or blanks at its ends", id)
	}
	return nil
}

// oneRun is for the argument that is the id of a run.
func oneRun(cmd *cobra.Command, args []string) error {
	if err := cli.Exactly("id")(cmd, args); err != nil {
		return err
	}
	return checkRun(args[0])
}

// someRuns is for arguments that are ids of runs.
func someRuns(cmd *cobra.Command, args []string) error {
	if err := cli.AtLeast("id")(cmd, args); err != nil {
		return err
	}
	for _, id := range args {
		if err := checkRun(id); err != nil {
			return err
		}
	}
	return nil
}

// body reads JSON from a text, or from a file, of which "-" is standard input.
// flag is where the text comes from; without any the body is what none says.
func (a *app) body(text, file, flag, none string) ([]byte, error) {
	body, where := []byte(text), flag
	var err error
	switch file {
	case "":
		if text == "" {
			body = []byte(none)
		}
	case "-":
		where = "standard input"
		body, err = io.ReadAll(a.Stdin)
	default:
		where = file
		body, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("read the input: %w", err)
	}
	var v json.RawMessage
	if err := json.Unmarshal(body, &v); err != nil {
		return nil, cli.JSONErrorf(where, body, err)
	}
	return body, nil
}
