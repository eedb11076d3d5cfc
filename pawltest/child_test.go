package pawltest_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl/pawltest"
	sm "github.com/pawlrun/pawl/statemachine"
)

// Trip has a room booked by a run of its own.
type Trip struct {
	City  string `json:"city"`
	Room  string `json:"room,omitempty"`
	Class string `json:"class,omitempty"`
	sm.Meta
}

// Room is booked, and confirmed by the hotel.
type Room struct {
	City   string `json:"city"`
	Number string `json:"number,omitempty"`
}

// What the machines are made of.
const (
	Rooms sm.Ref[Room, Room]        = "room"
	Book  sm.Effect[string, string] = "room.book"
	Drop  sm.Effect[string, string] = "room.drop"
)

func (t *Trip) room() Room     { return Room{City: t.City} }
func (t *Trip) booked(r Room)  { t.Room = r.Number }
func (r *Room) city() string   { return r.City }
func (r *Room) given(n string) { r.Number = n }
func (r *Room) number() string { return r.Number }
func (t *Trip) failed() bool   { t.Class = t.Cause().Class; return true }
func (*Room) heard(struct{})   {}

func trip() *sm.Catalog {
	m := sm.New[Trip]("trip", 1)
	m.State("stay", sm.Child(Rooms, (*Trip).room, (*Trip).booked)).Within(48*time.Hour, "late").Catch("full", "home").Then("done")
	m.Decide("home").When((*Trip).failed, "done").Then("done")
	m.Succeed("done")
	m.Fail("late", "too_late")
	c := sm.New[Room]("room", 1)
	c.State("book", sm.Call(Book, (*Room).city, (*Room).given)).Undo(sm.Call(Drop, (*Room).number, nil))
	c.State("confirm", sm.Signal("confirmed", (*Room).heard)).Within(24*time.Hour, "lapsed")
	c.Succeed("done")
	c.Fail("lapsed", "full")
	all := new(sm.Catalog).Add(m, c)
	return all
}

func TestChildren(t *testing.T) {
	t.Parallel()
	options := []pawltest.Option{
		pawltest.Machine("trip", 0), pawltest.Returns(Book, "room 7"), pawltest.Returns(Drop, "dropped"),
	}
	data := func(r *pawltest.Run) (trip Trip) {
		r.Data(&trip)
		return trip
	}
	t.Run("ends", func(t *testing.T) {
		r := pawltest.Start(t, trip(), Trip{City: "Oslo"}, options...)
		if r.State() != "stay" || r.Child().State() != "confirm" {
			t.Fatalf("the trip is in %s, its room in %s", r.State(), r.Child().State())
		}
		r.Child().Signal("s1", "confirmed", struct{}{})
		if d := data(r); r.Status() != sm.StatusSucceeded || d.Room != "room 7" || len(r.Children()) != 1 {
			t.Errorf("the trip %s with %+v", r.Status(), d)
		}
	})
	t.Run("fails", func(t *testing.T) {
		r := pawltest.Start(t, trip(), Trip{City: "Oslo"}, options...)
		c := r.Child()
		r.Advance(25 * time.Hour)
		if d := data(r); r.Status() != sm.StatusSucceeded || d.Class != "full" || len(c.Calls("room.drop")) != 1 {
			t.Errorf("the trip %s with %+v; the room was dropped %d times", r.Status(), d, len(c.Calls("room.drop")))
		}
	})
	t.Run("is cancelled with its parent, and undoes what it did", func(t *testing.T) {
		r := pawltest.Start(t, trip(), Trip{City: "Oslo"}, options...)
		c := r.Child()
		r.Command("c1", sm.EventCancel, sm.Command{})
		if r.Status() != sm.StatusCancelled || c.Status() != sm.StatusCancelled || len(c.Calls("room.drop")) != 1 {
			t.Errorf("the trip is %s, the room %s, dropped %d times", r.Status(), c.Status(), len(c.Calls("room.drop")))
		}
	})
	t.Run("is terminated with its parent, and undoes nothing", func(t *testing.T) {
		r := pawltest.Start(t, trip(), Trip{City: "Oslo"}, options...)
		c := r.Child()
		r.Command("c1", sm.EventTerminate, sm.Command{})
		if r.Cause().Class != sm.ClassTerminated || c.Cause().Class != sm.ClassTerminated || len(c.Calls("room.drop")) != 0 {
			t.Errorf("the trip: %+v, the room: %+v, dropped %d times", r.Cause(), c.Cause(), len(c.Calls("room.drop")))
		}
	})
	t.Run("is scripted", func(t *testing.T) {
		full := func(Room) (Room, error) { return Room{}, sm.Terminal("full", errors.New("no room")) }
		r := pawltest.Start(t, trip(), Trip{City: "Oslo"}, append(options, pawltest.OnChild(Rooms, full))...)
		if d := data(r); r.Status() != sm.StatusSucceeded || d.Class != "full" || len(r.Children()) != 0 {
			t.Errorf("the trip %s with %+v", r.Status(), d)
		}
	})
}

// Tour has a room booked in each of many cities, two at a time.
type Tour struct {
	Cities []string `json:"cities"`
	Rooms  []string `json:"rooms"`
}

func (t *Tour) cities() []string { return t.Cities }

func (t *Tour) booked(city string, r sm.Result[Room]) {
	if !r.OK() {
		t.Rooms = append(t.Rooms, city+": "+r.Cause.Class)
		return
	}
	t.Rooms = append(t.Rooms, city+": "+r.Value.Number)
}

// TestEachChild runs children that are items: scripted, or as they are.
func TestEachChild(t *testing.T) {
	t.Parallel()
	m := sm.New[Tour]("tour", 1)
	m.State("stay", sm.EachChild((*Tour).cities, 2, Rooms, func(_ *Tour, city string) Room { return Room{City: city} }, (*Tour).booked))
	m.Succeed("done")
	all := trip().Add(m)
	tour := Tour{Cities: []string{"Oslo", "Rome", "Kyiv"}}
	check := func(r *pawltest.Run, want ...string) {
		t.Helper()
		var got Tour
		if r.Data(&got); r.Status() != sm.StatusSucceeded || !slices.Equal(got.Rooms, want) {
			t.Errorf("the tour %s with %q", r.Status(), got.Rooms)
		}
	}
	check(pawltest.Start(t, all, tour, pawltest.Machine("tour", 0), pawltest.OnChild(Rooms, func(r Room) (Room, error) {
		if r.City == "Rome" {
			return r, sm.Terminal("full", errors.New("no room"))
		}
		r.Number = "1"
		return r, nil
	})), "Oslo: 1", "Rome: full", "Kyiv: 1")

	r := pawltest.Start(t, all, tour, pawltest.Machine("tour", 0), pawltest.Returns(Book, "7"), pawltest.Returns(Drop, "dropped"))
	if n := len(r.Children()); n != 2 {
		t.Fatalf("%d children at once", n)
	}
	for range 2 {
		for _, c := range r.Children() {
			if !c.Status().Ended() {
				c.Signal("s1", "confirmed", struct{}{})
			}
		}
	}
	check(r, "Oslo: 7", "Rome: 7", "Kyiv: 7")
}

// TestEachChildCrashes lets everything befall a run whose items are runs, one of
// which fails.
func TestEachChildCrashes(t *testing.T) {
	t.Parallel()
	m := sm.New[Tour]("tour", 1)
	m.State("stay", sm.EachChild((*Tour).cities, 2, Rooms, func(_ *Tour, city string) Room { return Room{City: city} }, (*Tour).booked))
	m.Succeed("done")
	c := sm.New[Room]("room", 1)
	c.State("book", sm.Call(Book, (*Room).city, (*Room).given)).Catch("full", "full")
	c.Succeed("done")
	c.Fail("full", "full")
	want := []string{"Oslo: 7", "Rome: full", "Kyiv: 7", "Bern: 7"}
	pawltest.CrashEverywhere(t, new(sm.Catalog).Add(m, c), Tour{Cities: []string{"Oslo", "Rome", "Kyiv", "Bern"}}, func(t testing.TB, r *pawltest.Run) {
		t.Helper()
		var got Tour
		if r.Data(&got); r.Status() != sm.StatusSucceeded || !slices.Equal(got.Rooms, want) || len(r.Children()) != len(want) {
			t.Errorf("the tour %s with %q, %d children", r.Status(), got.Rooms, len(r.Children()))
		}
	}, pawltest.Machine("tour", 0), pawltest.On(Book, func(city string) (string, error) {
		if city == "Rome" {
			return "", sm.Terminal("full", errors.New("no room"))
		}
		return "7", nil
	}))
}
