package transitions_test

import (
	"fmt"
	"strings"

	"github.com/pawlrun/pawl/transitions"
)

// The catalogue of a fleet in which an HTTP service updates the CRM.
func ExampleCatalog() {
	catalog, err := transitions.Catalog(transitions.Config{
		AllowHosts: []string{"localhost", "api.example.com"},
		FileDir:    "files",
		Bound:      map[string]transitions.Bound{"crm.update": {URL: "https://crm.example.com/update"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range catalog.Definitions() {
		fmt.Println(d.Name, d.Version)
	}
	fmt.Println(strings.Join(catalog.Effects(), " "))
	// Output:
	// invoice 1
	// kitchensink 1
	// kitchensink 2
	// kitchensink 3
	// kitchensink 4
	// onboarding 1
	// renewal 1
	// report 1
	// trip 1
	// crm.update doc.fetch edc.provision email.send file.append http.post invoice.totals irb.request kickoff.book ledger.post log noop site.accounts site.close site.verify text.summarise travel.book travel.cancel
}
